"""How families of models write reasoning and tool calls: a program for each, over one parser."""

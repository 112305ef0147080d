"""How families of models write tool calls: a program for each, over one parser."""

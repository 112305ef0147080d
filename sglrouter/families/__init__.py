"""How families of models write reasoning and tool calls: one file for each family.

A file declares FAMILIES: the names, what tells a model of the family, the formats of calls
and of reasoning, and how a call is forced. To add one, write its file; the registry finds
it. What families share is in formats/: the programs that read, over one parser, and the
tags that constrain.
"""

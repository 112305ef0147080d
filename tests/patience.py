"""How long tests wait for what has to happen.

A test waits for an event, never for time to pass, and a machine may be doing other things:
so these are long, and cost nothing where all is well.
"""

from __future__ import annotations

# For what happens soon.
PATIENCE = 60.0
# For a whole program, or a suite in a process of its own.
PROGRAM_PATIENCE = 240.0
# What is called prompt: sooner than anything that a test would wait for in vain, all of
# which takes LONG.
PROMPT = 30.0
LONG = 120.0
# For calls that are to end by their own deadline, after what comes first has come.
DEADLINE = 2.0

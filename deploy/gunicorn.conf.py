"""For gunicorn -c deploy/gunicorn.conf.py.

Everything is set by SGLROUTER_* variables or the file that SGLROUTER_CONFIG names;
docs/configuration.md lists the settings. What is assigned below the import wins.
"""

import os
import sys

# gunicorn has put the working folder first: the source, not compiled, would hide what is
# installed. sglrouter.server.gunicorn_conf puts it last.
sys.path[:] = [path for path in sys.path if path not in ("", os.getcwd())]

from sglrouter.server.gunicorn_conf import *  # noqa: E402, F403

"""For gunicorn -c deploy/gunicorn.conf.py.

Everything is set by SGLROUTER_* variables or the file that SGLROUTER_CONFIG names;
docs/configuration.md lists the settings. What is assigned below the import wins.
"""

from sglrouter.gunicorn_conf import *  # noqa: F403

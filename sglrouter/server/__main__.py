"""`python -P -m sglrouter.server` is gunicorn, with this package already imported.

gunicorn puts the working folder first on the import path before it reads its
configuration. A `sglrouter` folder in it, the source for instance, must not be taken for
this package.
"""

import sys

from gunicorn.app.wsgiapp import run

sys.exit(run(prog="gunicorn"))

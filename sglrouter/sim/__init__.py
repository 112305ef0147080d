"""A simulated SGLang engine: the real wire, and answers, delays and faults on demand.

In a test: `with SimulatedEngine() as engine: ...`; as a process: `sglrouter sim`.
"""

from sglrouter.sim.answers import Script
from sglrouter.sim.engine import SimulatedEngine
from sglrouter.sim.faults import Fault
from sglrouter.sim.options import SimOptions

__all__ = ["Fault", "Script", "SimOptions", "SimulatedEngine"]

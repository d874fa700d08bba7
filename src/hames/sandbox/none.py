"""No walls: `dangerFullAccess` and `externalSandbox`. Both have to be asked for by name.

What holds in every mode still holds: a clean environment, no inherited descriptor, no terminal, limits, and an
end for everything that was started.
"""

from hames.ports import Launch
from hames.sandbox.limits import limited
from hames.sandbox.plan import Plan


def planned(launch: Launch) -> Plan:
    return Plan(argv=limited(launch.argv, launch.limits), cwd=launch.cwd, contained=False)

"""The nodes of a shared store as metrics. Workers listen on no port, so every server tells about all of them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from hames.observe.metrics import format_labels
from hames.ports import NodeStatus

UP: Final = "hames_store_up"
NO_STORE: Final = f"# HELP {UP} Whether the shared store can be reached.\n# TYPE {UP} gauge\n{UP} 0\n"

_VALUES: Final[dict[str, tuple[str, str, Callable[[NodeStatus], float]]]] = {
    "hames_node_up": ("gauge", "Whether the lease of the node lasts.", lambda one: one.live),
    "hames_node_lease_seconds": ("gauge", "So long its lease still lasts.", lambda one: one.lease_s),
    "hames_node_renewal_seconds": ("gauge", "How long its last renewal took.", lambda one: one.lag_ms / 1000),
    "hames_node_slots": ("gauge", "Turns that it takes up at once.", lambda one: one.slots),
    "hames_node_turns": ("gauge", "Turns that run on it.", lambda one: one.running),
    "hames_node_threads": ("gauge", "Threads that it writes.", lambda one: one.threads),
    "hames_node_inbox": ("gauge", "Commands for its threads that have no answer yet.", lambda one: one.inbox),
    "hames_node_followers": ("gauge", "Readers of threads that other nodes write.", lambda one: one.followers),
    "hames_node_waiting": ("gauge", "Threads with something that is not written yet.", lambda one: one.waiting),
    "hames_node_claimed_total": ("counter", "Threads that it took up.", lambda one: one.claimed),
    "hames_node_fenced_total": ("counter", "Threads that other nodes took from it.", lambda one: one.fenced),
    "hames_node_facts_total": ("counter", "Records that it wrote.", lambda one: one.facts),
    "hames_node_deltas_total": ("counter", "Pieces of text that it wrote.", lambda one: one.deltas),
    "hames_node_batches_total": ("counter", "Statements that wrote them.", lambda one: one.batches),
}


def node_metrics(nodes: Sequence[NodeStatus], *, this: str) -> str:
    """`this` is the id of the node that tells."""
    return "".join(f"{line}\n" for line in _lines(nodes, this))


def _lines(nodes: Sequence[NodeStatus], this: str) -> Iterator[str]:
    yield f"# HELP {UP} Whether the shared store can be reached.\n# TYPE {UP} gauge\n{UP} 1"
    labels = {one.id: _labels(one) for one in nodes}
    name = "hames_node_info"
    yield f"# HELP {name} The nodes of the shared store.\n# TYPE {name} gauge"
    for one in nodes:
        about = (("kind", "worker" if one.slots else "gateway"), ("this", str(int(one.id == this))))
        yield f"{name}{format_labels((*labels[one.id], *about, ('version', one.version)))} 1"
    for name, (kind, means, read) in _VALUES.items():
        yield f"# HELP {name} {means}\n# TYPE {name} {kind}"
        for one in nodes:
            yield f"{name}{format_labels(labels[one.id])} {float(read(one)):g}"
    name = "hames_node_append_seconds"
    yield f"# HELP {name} How long the last appends took, until they were kept.\n# TYPE {name} gauge"
    for one in nodes:
        for quantile, value in (("0.5", one.append_ms), ("0.99", one.append_ms_p99)):
            yield f"{name}{format_labels((*labels[one.id], ('quantile', quantile)))} {value / 1000:g}"


def _labels(node: NodeStatus) -> tuple[tuple[str, str], ...]:
    return ("id", node.id), ("node", node.name)

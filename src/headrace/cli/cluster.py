"""`headrace cluster`: who serves, who leads, and what they speak."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from headrace.cli.commands import Noun
from headrace.cli.connecting import with_client
from headrace.cli.options import current
from headrace.cli.output import Column, show, show_one
from headrace.cli.parsing import show_size
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.aio import Client
    from headrace.client.values import LogDir, Quorum

app = Noun("Nodes, quorum and versions of the server.")


class NodeRow(msgspec.Struct, frozen=True):
    node_id: int
    address: str
    rack: str | None
    controller: bool
    leads: int  # partitions that it leads
    replicas: int  # partitions that it holds
    size_bytes: int | None
    disk_free_bytes: int | None


class QuorumRow(msgspec.Struct, frozen=True):
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[int, ...]
    observers: tuple[int, ...]


class ApiRow(msgspec.Struct, frozen=True):
    key: int
    name: str
    min: int
    max: int


class ClusterDetail(msgspec.Struct, frozen=True):
    cluster_id: str | None
    controller_id: int
    topics: int
    partitions: int
    nodes: tuple[NodeRow, ...]
    quorum: QuorumRow | None  # None: the server does not tell
    apis: tuple[ApiRow, ...]


NODE_COLUMNS = [
    Column("node_id", "node", align="right"),
    Column("address"),
    Column("rack", wide=True),
    Column("controller", show=lambda is_controller: "*" if is_controller else ""),
    Column("leads", align="right"),
    Column("replicas", align="right"),
    Column("size_bytes", "size", align="right", show=show_size),
    Column("disk_free_bytes", "disk free", align="right", show=show_size),
]
API_COLUMNS = [
    Column("key", align="right"),
    Column("name", "api"),
    Column("min", "from", align="right"),
    Column("max", "to", align="right"),
]


@app.command()
def describe(
    versions: Annotated[bool, typer.Option("--versions", help="also the requests that it takes, by version")] = False,
) -> None:
    """Show the cluster: its nodes, who leads, what it holds.

    Examples:
      headrace cluster describe
      headrace cluster describe --versions
      headrace cluster describe -o json
    """
    found = with_client(_detail)
    options = current()
    form = options.output_or()
    if form not in ("table", "wide"):
        show_one(found, [Column(name) for name in ClusterDetail.__struct_fields__], options)
        return
    head = {
        "cluster": found.cluster_id,
        "controller": found.controller_id,
        "quorum": _words(found.quorum),
        "topics": found.topics,
        "partitions": found.partitions,
    }
    show_one(head, [Column(name) for name in head], options)
    print()
    show(found.nodes, NODE_COLUMNS, options)
    if versions or form == "wide":
        print()
        show(found.apis, API_COLUMNS, options)


async def _detail(client: Client) -> ClusterDetail:
    admin = client.admin
    cluster = await admin.cluster()
    topics = await admin.topics(internal=True)
    partitions = [partition for topic in topics for partition in topic.partitions]
    folders, quorum = await _folders(client), await _quorum(client)
    nodes = tuple(
        NodeRow(
            node.id,
            node.address,
            node.rack,
            node.id == cluster.controller_id,
            sum(partition.leader == node.id for partition in partitions),
            sum(node.id in partition.replicas for partition in partitions),
            *_disk([folder for folder in folders if folder.node_id == node.id]),
        )
        for node in cluster.nodes
    )
    apis = tuple(
        ApiRow(key, api_name(key), span.min, span.max) for key, span in sorted((await admin.api_versions()).items())
    )
    return ClusterDetail(cluster.cluster_id, cluster.controller_id, len(topics), len(partitions), nodes, quorum, apis)


async def _folders(client: Client) -> list[LogDir]:
    try:
        return await client.admin.log_dirs()
    except HeadraceError:  # an old or a foreign server: what it does not tell is missing, and the rest is shown
        return []


async def _quorum(client: Client) -> QuorumRow | None:
    try:
        found: Quorum = await client.admin.quorum()
    except HeadraceError:
        return None
    voters = tuple(member.node_id for member in found.voters)
    observers = tuple(member.node_id for member in found.observers)
    return QuorumRow(found.leader_id, found.leader_epoch, found.high_watermark, voters, observers)


def _disk(folders: list[LogDir]) -> tuple[int | None, int | None]:
    """Bytes of the logs, and bytes that are free."""
    if not folders:
        return None, None
    used = sum(part.size for folder in folders for part in folder.partitions)
    free = [folder.usable_bytes for folder in folders if folder.usable_bytes >= 0]
    return used, sum(free) if free else None


def _words(quorum: QuorumRow | None) -> str:
    if quorum is None:
        return "(not told)"
    voters = ", ".join(map(str, quorum.voters))
    return f"node {quorum.leader_id} leads in epoch {quorum.leader_epoch}; voters {voters}"


def api_name(key: int) -> str:
    """As Kafka names it; a newer server may take what we have no name for."""
    from kio.schema.index import api_key_map

    name = api_key_map.get(key)
    return "".join(word.capitalize() for word in str(name).split("_")) if name else f"({key})"

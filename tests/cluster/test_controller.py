"""The controller decides; nothing here touches a disk."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec
import pytest

from headrace.cluster import controller, records
from headrace.cluster.controller import Limits, NewTopic
from headrace.cluster.image import GONE_TOPICS, Image
from headrace.errors import (
    FormatTooNew,
    InvalidPartitions,
    InvalidReplication,
    InvalidTopicName,
    LimitReached,
    TopicExists,
    UnknownNode,
    UnknownTopicId,
)

ID = bytes(range(16))


def image(nodes: int = 1) -> Image:
    made = Image()
    made.apply(records.ClusterCreated("cluster", 0))
    for node in range(nodes):
        made.apply(records.NodeRegistered(node, 1, {}))
    return made


def create(on: Image, **wish: object) -> None:
    topic = NewTopic(**({"topic_id": ID, "name": "t", "partitions": 3} | wish))  # type: ignore[arg-type]
    for record in controller.create_topic(on, topic, Limits(), 5):
        on.apply(record)


def test_partitions_are_spread_over_the_nodes_round_robin() -> None:
    three = image(3)
    create(three, partitions=4, replication=2)
    assert [p.replicas for p in three.names["t"].partitions] == [[0, 1], [1, 2], [2, 0], [0, 1]]
    assert [p.leader for p in three.names["t"].partitions] == [0, 1, 2, 0]


@pytest.mark.parametrize("name", ["", ".", "..", "a\nb", "\x7f", "\x85", "x" * 250, "ü" * 125, "\ud800"])
def test_a_name_that_no_topic_can_have_is_refused(name: str) -> None:
    with pytest.raises(InvalidTopicName):
        create(image(), name=name)


@pytest.mark.parametrize("name", ["a", "x" * 249, "ü" * 124, "with space", "...", "!system/x"])
def test_any_other_utf8_text_is_a_name(name: str) -> None:
    create(image(), name=name)


@pytest.mark.parametrize(
    ("wish", "error"),
    [
        ({"partitions": 0}, InvalidPartitions),
        ({"partitions": 10_001}, InvalidPartitions),
        ({"partitions": 2**31 - 1}, InvalidPartitions),
        ({"replication": 2}, InvalidReplication),
        ({"replication": 0}, InvalidReplication),
        ({"assignments": [[0, 0]]}, InvalidReplication),
        ({"assignments": [[7]]}, InvalidReplication),
        ({"assignments": [[]]}, InvalidReplication),
    ],
)
def test_an_impossible_wish_names_its_cause(wish: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        create(image(), **wish)


def test_a_name_is_taken_until_its_topic_is_deleted() -> None:
    one = image()
    create(one)
    with pytest.raises(TopicExists):
        create(one, topic_id=b"another id......")
    for record in controller.delete_topic(one, ID):
        one.apply(record)
    create(one, topic_id=b"another id......")
    assert one.partition_count == 3
    with pytest.raises(UnknownTopicId):
        controller.delete_topic(one, ID)


def test_all_topics_together_stay_below_the_limit() -> None:
    one = image()
    create(one, partitions=10)
    with pytest.raises(LimitReached, match="max_partitions"):
        controller.create_topic(one, NewTopic(b"b" * 16, "u", 11), Limits(max_partitions=20), 0)


def test_partitions_can_be_added_but_not_taken_away() -> None:
    one = image()
    create(one)
    for record in controller.add_partitions(one, ID, 5, None, Limits()):
        one.apply(record)
    assert len(one.names["t"].partitions) == one.partition_count == 5
    with pytest.raises(InvalidPartitions):
        controller.add_partitions(one, ID, 5, None, Limits())


def test_new_partitions_go_on_where_the_old_ones_ended() -> None:
    three = image(3)
    create(three, partitions=1)
    for record in controller.add_partitions(three, ID, 4, None, Limits()):
        three.apply(record)
    assert [p.leader for p in three.names["t"].partitions] == [0, 1, 2, 0]


@pytest.mark.parametrize("assignments", [[], [[0]], [[0], [7]], [[0, 1], [0, 1]], [[0], []], [[0], [0], [0]]])
def test_an_assignment_of_new_partitions_has_to_add_up(assignments: list[list[int]]) -> None:
    two = image(2)
    create(two, partitions=1)
    with pytest.raises(InvalidReplication):
        controller.add_partitions(two, ID, 3, assignments, Limits())


def test_new_partitions_go_where_they_are_assigned() -> None:
    two = image(2)
    create(two, partitions=1)
    for record in controller.add_partitions(two, ID, 3, [[1], [1]], Limits()):
        two.apply(record)
    assert [p.leader for p in two.names["t"].partitions] == [0, 1, 1]


def test_partitions_are_not_added_over_a_limit_or_to_nothing() -> None:
    one = image()
    create(one)
    with pytest.raises(InvalidPartitions):
        controller.add_partitions(one, ID, 2**31 - 1, None, Limits())
    with pytest.raises(LimitReached):
        controller.add_partitions(one, ID, 50, None, Limits(max_partitions=49))
    with pytest.raises(UnknownTopicId):
        controller.add_partitions(one, b"x" * 16, 5, None, Limits())


def test_nodes_have_settings_of_their_own_and_of_all_and_lose_them_one_by_one() -> None:
    one = image()
    for node_id, changes in ((records.ALL_NODES, {"a": "1", "b": "2"}), (0, {"a": "3"}), (-1, {"b": None, "c": None})):
        for record in controller.configure_nodes(one, node_id, changes):
            one.apply(record)
    assert one.node_configs == {records.ALL_NODES: {"a": "1"}, 0: {"a": "3"}}
    assert Image.load(one.save()).node_configs == one.node_configs
    assert controller.configure_nodes(one, 0, {}) == []
    with pytest.raises(UnknownNode):
        controller.configure_nodes(one, 5, {"a": "1"})


def test_every_start_of_a_node_gives_what_it_leads_a_new_epoch() -> None:
    two = image(2)
    create(two, partitions=2)
    for record in controller.register_node(two, 1, {"kafka": "h:1"}, None):
        two.apply(record)
    assert [p.leader_epoch for p in two.names["t"].partitions] == [0, 1]
    assert two.nodes[1].incarnation == 2


def test_a_partition_alone_gets_a_new_epoch_and_one_of_a_deleted_topic_none() -> None:
    one = image()
    create(one, partitions=3)
    for _ in range(2):
        for record in controller.begin_epoch(one, ID, 1):
            one.apply(record)
    assert [p.leader_epoch for p in one.names["t"].partitions] == [0, 2, 0]
    assert [p.leader_epoch for p in Image.load(one.save()).names["t"].partitions] == [0, 2, 0]
    one.apply(records.TopicDeleted(ID))
    assert controller.begin_epoch(one, ID, 1) == []


def test_producer_ids_are_never_given_twice() -> None:
    one = image()
    for node in (0, 1, 0):
        (record,) = controller.reserve_producer_ids(one, node)
        one.apply(record)
    assert one.next_producer_id == 3 * controller.PRODUCER_ID_BLOCK


def test_an_image_reads_back_as_it_was_saved() -> None:
    one = image(2)
    create(one, config={"retention.ms": "5"})
    one.apply(records.TopicConfigured(ID, {"retention.ms": None, "segment.bytes": "99999"}))
    again = Image.load(one.save())
    assert again.save() == one.save()
    assert again.names["t"].config == {"segment.bytes": "99999"}
    assert (again.partition_count, again.version, again.nodes) == (one.partition_count, one.version, one.nodes)


def test_records_survive_their_encoding_and_an_unknown_kind_is_refused() -> None:
    made = [
        records.ClusterCreated("c", 1),
        records.NodeRegistered(0, 1, {"kafka": "h:1"}, "rack"),
        records.TopicCreated(ID, "t", [[0], [0]], {"a": "b"}, 4),
        records.TopicConfigured(ID, {"a": None}),
        records.NodesConfigured(-1, {"a": "b", "c": None}),
        records.PartitionsAdded(ID, [[0]]),
        records.LeaderEpochBegun(ID, 1, 7),
        records.ProducerIdsReserved(0, 1000),
        records.TopicDeleted(ID),
    ]
    assert records.decode(records.encode(made)) == made  # type: ignore[arg-type]
    with pytest.raises(FormatTooNew):
        records.decode(records.encode(made[:1]).replace(b"cluster-created", b"cluster-renamed"))  # type: ignore[arg-type]


def test_an_image_that_was_saved_before_nodes_had_settings_still_loads() -> None:
    saved = msgspec.msgpack.decode(image().save())
    del saved["node_configs"], saved["gone"]
    assert Image.load(msgspec.msgpack.encode(saved)).node_configs == {}


def test_an_image_remembers_the_topics_that_were_deleted_last() -> None:
    one = image()
    ids = [number.to_bytes(16) for number in range(GONE_TOPICS + 5)]
    for topic_id in ids:
        one.apply(records.TopicCreated(topic_id, "t", [[0]], {}, 4))
        one.apply(records.TopicDeleted(topic_id))
    assert list(Image.load(one.save()).gone) == list(one.gone) == [(topic_id, "t") for topic_id in ids[5:]]


def test_the_page_on_the_format_names_every_kind_of_record_and_every_field_of_an_image() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "log-format.md").read_text()
    kinds = [kind.__struct_config__.tag for kind in get_args(records.MetadataRecord)]
    fields = list(msgspec.msgpack.decode(image().save()))
    assert [name for name in kinds + fields if f"`{name}`" not in page] == []

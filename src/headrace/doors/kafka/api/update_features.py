"""UpdateFeatures, 0 to 2. A feature of ours has the level that it has: to set it to that is done, anything else is
refused. Version 2 has no answer for each feature; the first error stands for all.
"""

from __future__ import annotations

from typing import Any

from headrace.doors.kafka.api.api_versions import FEATURES
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.finding import refusal
from headrace.doors.kafka.registry import Api
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import UPDATE_FEATURES

_ONE_ANSWER_FROM = 2


def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes:
    request = messages.decode(UPDATE_FEATURES, context.version, buffer, at, end)
    schema = messages.schema("response", UPDATE_FEATURES, context.version)
    refused = {update.feature: _judged(update) for update in request.feature_updates}
    whole = refusal(Code.NONE)
    results = ()
    if context.version >= _ONE_ANSWER_FROM:
        whole = next((why for why in refused.values() if why != whole), whole)
    else:
        results = tuple(schema.UpdatableFeatureResult(feature=name, **why) for name, why in refused.items())
    response = messages.build(schema.UpdateFeaturesResponse, throttle_time=messages.NO_TIME, **whole, results=results)
    return messages.encode(response, context.correlation_id)


def _judged(update: Any) -> dict[str, Any]:
    level = next((feature.level for feature in FEATURES if feature.name == update.feature), None)
    if level is None:
        text = f"there is no feature {update.feature[:100]!r} whose level could be set"
        return refusal(Code.INVALID_UPDATE_VERSION, text)
    if update.max_version_level != level:
        return refusal(Code.INVALID_UPDATE_VERSION, f"{update.feature} is at level {level}, and stays there")
    return refusal(Code.NONE)


API = Api(UPDATE_FEATURES, "UpdateFeatures", range(3), handle)

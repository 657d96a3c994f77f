"""Records in, from doors that carry single messages."""

from headrace.broker.dedup.window import ID
from headrace.broker.publishing.keys import by_key
from headrace.broker.publishing.published import OnPublished, OnRunPublished, Published
from headrace.broker.publishing.publishing import Publishing, check_name, with_id

__all__ = ["ID", "OnPublished", "OnRunPublished", "Published", "Publishing", "by_key", "check_name", "with_id"]

"""Sessions: conversations that are kept between runs."""

from ekiden.compat.agents.memory.openai_conversations_session import (
    OpenAIConversationsSession,
)
from ekiden.compat.agents.memory.openai_responses_compaction_session import (
    OpenAIResponsesCompactionSession,
)
from ekiden.compat.agents.memory.session import (
    OpenAIResponsesCompactionArgs,
    OpenAIResponsesCompactionAwareSession,
    Session,
    SessionABC,
    is_openai_responses_compaction_aware_session,
)
from ekiden.compat.agents.memory.session_settings import (
    SessionSettings,
)
from ekiden.compat.agents.memory.sqlite_session import (
    SQLiteSession,
)
from ekiden.compat.agents.memory.util import (
    SessionInputCallback,
)

__all__ = [
    "OpenAIConversationsSession",
    "OpenAIResponsesCompactionArgs",
    "OpenAIResponsesCompactionAwareSession",
    "OpenAIResponsesCompactionSession",
    "SQLiteSession",
    "Session",
    "SessionABC",
    "SessionInputCallback",
    "SessionSettings",
    "is_openai_responses_compaction_aware_session",
]

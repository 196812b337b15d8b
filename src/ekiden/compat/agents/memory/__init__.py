"""Sessions: conversations that are kept between runs."""

from ekiden.compat.agents.memory.openai_conversations_session import (
    OpenAIConversationsSession as OpenAIConversationsSession,
)
from ekiden.compat.agents.memory.openai_responses_compaction_session import (
    OpenAIResponsesCompactionSession as OpenAIResponsesCompactionSession,
)
from ekiden.compat.agents.memory.session import (
    OpenAIResponsesCompactionArgs as OpenAIResponsesCompactionArgs,
    OpenAIResponsesCompactionAwareSession as OpenAIResponsesCompactionAwareSession,
    Session as Session,
    SessionABC as SessionABC,
    is_openai_responses_compaction_aware_session as is_openai_responses_compaction_aware_session,
)
from ekiden.compat.agents.memory.session_settings import SessionSettings as SessionSettings
from ekiden.compat.agents.memory.sqlite_session import SQLiteSession as SQLiteSession
from ekiden.compat.agents.memory.util import SessionInputCallback as SessionInputCallback
from ekiden.compat.agents.not_supported import names_of

__all__ = names_of(__name__)

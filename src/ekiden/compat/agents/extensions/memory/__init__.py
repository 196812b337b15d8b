"""Sessions in other stores."""

from ekiden.compat.agents.extensions.memory.advanced_sqlite_session import (
    AdvancedSQLiteSession,
)
from ekiden.compat.agents.extensions.memory.async_sqlite_session import (
    AsyncSQLiteSession,
)
from ekiden.compat.agents.extensions.memory.dapr_session import (
    DAPR_CONSISTENCY_EVENTUAL,
    DAPR_CONSISTENCY_STRONG,
    DaprSession,
)
from ekiden.compat.agents.extensions.memory.encrypt_session import (
    EncryptedSession,
)
from ekiden.compat.agents.extensions.memory.mongodb_session import (
    MongoDBSession,
)
from ekiden.compat.agents.extensions.memory.redis_session import (
    RedisSession,
)
from ekiden.compat.agents.extensions.memory.sqlalchemy_session import (
    SQLAlchemySession,
)

__all__ = [
    "DAPR_CONSISTENCY_EVENTUAL",
    "DAPR_CONSISTENCY_STRONG",
    "AdvancedSQLiteSession",
    "AsyncSQLiteSession",
    "DaprSession",
    "EncryptedSession",
    "MongoDBSession",
    "RedisSession",
    "SQLAlchemySession",
]

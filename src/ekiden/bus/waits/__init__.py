"""Who waits for whom: in this process, in the store, and in deadlocks."""

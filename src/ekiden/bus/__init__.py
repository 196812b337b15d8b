"""The message bus: what agents say to each other, stored before it is delivered."""

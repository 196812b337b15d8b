"""The parts of the engine contract; `EngineContract` has all of them."""

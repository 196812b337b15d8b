"""The parts of the engine contract, by what they are about; `EngineContract` has all of them."""

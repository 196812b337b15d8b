"""The parts of the contract suites, one file for each role."""

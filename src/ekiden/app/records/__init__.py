"""Stored things as the JSON that the doors show: a contract with programs."""

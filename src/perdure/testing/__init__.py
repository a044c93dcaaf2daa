"""Proofs one can run, and what the tests of those who use perdure may want."""

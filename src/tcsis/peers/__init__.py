"""Other neural samplers, each under its own name, to be compared with."""

"""What every part leans on: refusals and generators, whole files, frozen values, a progress bar."""

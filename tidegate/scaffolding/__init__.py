"""Makes the files of a new pipeline, from templates or from a sample, for `tidegate new`."""

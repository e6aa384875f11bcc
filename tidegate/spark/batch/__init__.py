"""The numbered steps of a micro-batch, for each kind of flow."""

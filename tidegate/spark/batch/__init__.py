"""One micro-batch in its numbered steps, and what each kind of flow does in them."""

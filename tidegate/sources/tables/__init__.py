"""Tables, by their change feeds."""

"""Full refreshes: whole tables, derived again."""

"""From a source to typed rows: streams, files, messages, contracts."""

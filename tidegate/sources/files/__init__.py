"""Landing folders: files that appear under final names."""

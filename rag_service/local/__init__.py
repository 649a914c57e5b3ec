"""The embedded default: local servers for Chroma and for a demo model, started on first use and shared by processes."""

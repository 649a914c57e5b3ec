"""Documents from the web, for `rag-ingest run https://…`.

Nothing here is ever used on its own account: an address that a person types on the command line is the only way in.

In: an http(s) address and limits. Out: files, addresses of a sitemap, or a refusal with its reason, as values.
Must not: reach an address of the machine's own networks, whatever a name, a redirect or a second look-up says.
"""

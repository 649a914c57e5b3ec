"""Files are read and cut in processes of their own: one that hangs, crashes or eats memory costs one file.

In: files and what is known of them. Out: documents with their chunks, or what became of the process. Must not: touch the index.
"""

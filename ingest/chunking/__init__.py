"""What chunker.py is made of: letters that belong together, sentences, rows, units of text, and how they are packed.

In: texts and the numbers of their tokens. Out: spans. Must not: change a text, or know a model (pure, standard library).
"""

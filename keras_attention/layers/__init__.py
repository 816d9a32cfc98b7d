"""Building blocks named as in the papers, in `keras.ops` only.

Comments use one alphabet: B batch, T queries, S keys, D width, H heads, K head width, V vocabulary.
"""

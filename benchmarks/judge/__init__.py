"""Questions about recorded objects, made by rule from what was recorded, and whether a text answers them.

Nothing here asks the code that makes the short forms what it thinks worth keeping: the rules read the recorded calls
and words themselves. The recorded text is not in the repository; ``data/short_forms.json`` has references to it.
"""

"""The explorer: a page that answers where a model looks, and why. It computes attention by itself, from q, k and what
the encoding's terms are made of.

    arrays.py    numbers as text       scene.py     what a sample looks like, and which part of it each token is
    forms.py     terms of biases       layers.py    an attention layer's numbers
    page.py      the page; what runs in it is in the .js files, and how it looks in explorer.css
"""

"""The interactive attention viewer: an HTML page that computes attention maps from q, k and the terms of the encoding.

arrays.py    arrays as text
forms.py     q, k and bias terms of an attention layer
page.py      the page; its scripts are in the .js files, its style in explorer.css
"""

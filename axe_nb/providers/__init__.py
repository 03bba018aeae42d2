"""The models' servers, one module for each protocol, over connections that all of them share.

Source: B-2, B-3, D-33; product.md "Providers".
"""

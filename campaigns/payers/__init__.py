"""The provider's bill for the live server under each tariff, compared with `mnemosyne evaluate` for the same
session.
"""

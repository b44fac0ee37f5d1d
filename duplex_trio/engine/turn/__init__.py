"""Requests for whole answers: what is asked (`request`, `checks`), what comes of it (`outputs`, `reader`), the life of
one (`live`) and all of them (`manager`).
"""

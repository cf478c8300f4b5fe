"""The recorded sessions as commands see them: find, rebuild, verify, carry elsewhere, forget.

Everything here works on an open log, beside a running server or without one; none of it is on the path of a request.
"""

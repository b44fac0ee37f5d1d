"""Pictures for tests: whole files, as small as they come or as large as they are wanted."""

from __future__ import annotations

import base64

from duplex_trio.protocol.pictures import grey_png

JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAFA3PEY8MlBGQUZaVVBfeMiCeG5uePWvuZHI//////////////////////////////////////////"
    "//////////wAALCAAQABABAREA/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIh"
    "MUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWG"
    "h4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/9oACAEBAAA/ACiiiv/Z"
)
"""16 x 16 pixels, baseline."""
PNG = grey_png(1, 1)
JPEG_URL = "data:image/jpeg;base64," + base64.b64encode(JPEG).decode()
PNG_URL = "data:image/png;base64," + base64.b64encode(PNG).decode()


def png_url(size_chars: int) -> str:
    """The URL of a picture, about so many characters long, but no less than 130."""
    filler_bytes = max(0, (size_chars - len(PNG_URL)) * 3 // 4 - 12)
    return "data:image/png;base64," + base64.b64encode(grey_png(1, 1, filler_bytes=filler_bytes)).decode()

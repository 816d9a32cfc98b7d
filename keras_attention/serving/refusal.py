"""An answer that is none: its status, and why."""

from starlette.responses import JSONResponse

RETRY_SECONDS = 1


class Refusal(Exception):
    """Args: status, int of HTTP; message, str for the client; close, bool, whether to end the connection."""

    def __init__(self, status, message, close=False):
        super().__init__(message)
        self.status, self.message, self.close = status, message, close

    def response(self):
        """The answer as JSON; with 503 it says when to come again."""
        headers = {"retry-after": str(RETRY_SECONDS)} if self.status == 503 else {}
        headers |= {"connection": "close"} if self.close else {}
        message = self.message.encode("utf-8", "replace").decode()  # it may quote half a surrogate pair
        return JSONResponse({"error": message}, self.status, headers)

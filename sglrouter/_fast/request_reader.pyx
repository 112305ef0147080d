# cython: boundscheck=False, wraparound=False, cdivision=True
"""Reads plain HTTP/1.1 requests from a connection, each as a WSGI environment.

Strategy: accept only what every parser reads the same way, and leave all else to gunicorn's
parser, with every byte of it: an origin-form target, HTTP/1.1, CRLF line ends, names of
letters, digits and hyphens that come once, values of printable ASCII, one Host, a body of
one Content-Length or none. Nothing is repaired and nothing is refused here, so there is
nothing here to be smuggled past. What is not complete yet, and may still become a plain
request, is waited for.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint8_t
from libc.string cimport memchr, memcmp, memcpy, memmove

from io import BytesIO
from urllib.parse import unquote_to_bytes

cdef extern from "sys/types.h":
    ctypedef long ssize_t

cdef extern from "sys/socket.h" nogil:
    ssize_t recv(int, void*, size_t, int)
    enum:
        MSG_DONTWAIT

cdef extern from "string.h" nogil:
    char* strerror(int)

cdef enum:
    MOST_METHOD = 20
    MOST_NAME = 64
    # Bytes of room that is made for one recv(), and that an idle connection keeps.
    ROOM = 8192
    # Digits of a length that is looked at.
    MOST_DIGITS = 9

cdef enum Progress:
    COMPLETE
    INCOMPLETE
    NOT_PLAIN

cdef bytes VERSION = b" HTTP/1.1\r\n"
# Keys of fields that change how a request is read or answered in ways of gunicorn's.
cdef frozenset NOT_OURS = frozenset((
    "HTTP_TRANSFER_ENCODING", "HTTP_EXPECT", "HTTP_UPGRADE", "HTTP_HTTP2_SETTINGS",
    "HTTP_PROXY_CONNECTION",
))
cdef frozenset WITHOUT_BODY = frozenset(("GET", "DELETE", "OPTIONS"))
cdef frozenset WITH_BODY = frozenset(("POST", "PUT", "PATCH", "DELETE"))
cdef str HTTPS = "https"
cdef str HTTP = "http"


cdef inline str _ascii(const uint8_t* start, const uint8_t* stop):
    return PyUnicode_DecodeASCII(<const char*>start, stop - start, NULL)


cdef str _key(const uint8_t* at, const uint8_t* colon):
    """A field's name as a WSGI environment has it; None if it is not plain."""
    cdef uint8_t name[MOST_NAME + 5]
    cdef Py_ssize_t size = colon - at
    cdef Py_ssize_t i
    cdef uint8_t byte
    if size == 0 or size > MOST_NAME:
        return None
    memcpy(name, b"HTTP_", 5)
    for i in range(size):
        byte = at[i]
        if 0x61 <= byte <= 0x7A:
            byte -= 0x20
        elif byte == 0x2D:
            byte = 0x5F
        elif not (0x41 <= byte <= 0x5A or 0x30 <= byte <= 0x39):
            return None
        name[i + 5] = byte
    if size == 12 and memcmp(name + 5, b"CONTENT_TYPE", 12) == 0:
        return "CONTENT_TYPE"
    if size == 14 and memcmp(name + 5, b"CONTENT_LENGTH", 14) == 0:
        return "CONTENT_LENGTH"
    return _ascii(name, name + 5 + size)


cdef Py_ssize_t _length(str value) except -2:
    """A body's length; -1 if it is not a plain number."""
    if len(value) > MOST_DIGITS or not value.isdigit():
        return -1
    return int(value)


cdef class RequestReader:
    """The requests of one connection.

    Args:
        fd: Its socket, non-blocking.
        base: What the environments of all its requests have in common.
        https: What says, for each field (by its key) that may say so, that the client's
            side of a proxy is encrypted; empty unless the peer is a proxy that is trusted.
        limits: Longest request line, most fields, longest field, longest body, in bytes.

    Attributes:
        closes: Whether the client wants the connection closed after the last request.
        has_head: Whether a plain head has come whose body is not complete.
    """

    cdef int fd
    cdef dict base, https, environ
    cdef Py_ssize_t most_line, most_fields, most_field, most_body
    # What has come is data[start:end]; the request at its beginning ends at `stop`, once its
    # head has been read. Up to `looked_at` there is no end of a line that was not seen.
    cdef uint8_t* data
    cdef Py_ssize_t capacity, start, end, stop, looked_at, body_size
    cdef bint served
    cdef readonly bint closes, has_head

    def __cinit__(self, int fd, dict base not None, dict https not None, tuple limits not None):
        self.fd = fd
        self.base = base
        self.https = https
        self.most_line, self.most_fields, self.most_field, self.most_body = limits

    def __dealloc__(self):
        PyMem_Free(self.data)

    @property
    def waiting(self):
        """Bytes that have come beyond the last request."""
        return self.end - (self.stop if self.served else self.start)

    cdef int _make_room(self, Py_ssize_t size) except -1:
        cdef void* grown
        cdef Py_ssize_t capacity = self.capacity
        if capacity - self.end >= size:
            return 0
        if self.start > 0:
            memmove(self.data, self.data + self.start, self.end - self.start)
            self.end -= self.start
            self.stop -= self.start
            self.looked_at -= self.start
            self.start = 0
        if capacity - self.end < size:
            capacity = max(2 * capacity, self.end + size)
            grown = PyMem_Realloc(self.data, capacity)
            if grown == NULL:
                raise MemoryError()
            self.data = <uint8_t*>grown
            self.capacity = capacity
        return 0

    cpdef int feed(self, bytes data) except -1:
        """Takes bytes that somebody else has received."""
        self._make_room(PyBytes_GET_SIZE(data))
        memcpy(self.data + self.end, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
        self.end += PyBytes_GET_SIZE(data)
        return 0

    cpdef Py_ssize_t fill(self) except -2:
        """Receives what there is.

        Returns:
            How many bytes; 0 at the client's end of the connection, -1 if there is nothing.

        Raises:
            OSError: The connection is broken.
        """
        cdef ssize_t size
        self._make_room(ROOM // 2)
        while True:
            size = recv(self.fd, self.data + self.end, self.capacity - self.end, MSG_DONTWAIT)
            if size >= 0:
                self.end += size
                return size
            if errno == EAGAIN:
                return -1
            if errno != EINTR:
                raise OSError(errno, strerror(errno).decode("utf-8", "replace"))

    def next(self):
        """Reads the next request; the one before must be forgotten by then.

        Returns:
            Its environment. None if it is not complete, False if it is not plain: then
            take() gives all of it.
        """
        cdef Progress progress
        cdef dict environ
        cdef bytes body
        assert not self.served
        if self.end == self.start:
            return None
        if not self.has_head:
            # A line that has not ended says nothing new, unless it is too long.
            if (
                self.looked_at > self.start
                and self.end - self.start <= self.most_line
                and memchr(self.data + self.looked_at, 0x0A, self.end - self.looked_at) == NULL
            ):
                return None
            progress = self._read_head()
            self.looked_at = self.end
            if progress != COMPLETE:
                self.environ = None
                return None if progress == INCOMPLETE else False
            self.has_head = True
        if self.end < self.stop:
            return None
        environ, self.environ = self.environ, None
        self.has_head = False
        body = PyBytes_FromStringAndSize(
            <char*>self.data + self.stop - self.body_size, self.body_size
        )
        environ["wsgi.input"] = BytesIO(body)
        self.served = True
        return environ

    def forget(self):
        """Lets go of the last request, which is dealt with."""
        if self.served:
            self.start = self.looked_at = self.stop
            self.served = False
        if self.start == self.end:
            self.start = self.end = self.stop = self.looked_at = 0
            if self.capacity > 2 * ROOM:
                PyMem_Free(self.data)
                self.data = NULL
                self.capacity = 0

    def take(self):
        """Returns all that is not dealt with, the last request first, and leaves nothing."""
        cdef bytes taken = PyBytes_FromStringAndSize(
            <char*>self.data + self.start, self.end - self.start
        )
        self.start = self.end = self.stop = self.looked_at = 0
        self.served = self.has_head = False
        self.environ = None
        return taken

    cdef Progress _read_head(self) except *:
        """Reads the head that begins at `start` into `environ`."""
        cdef const uint8_t* begin = self.data + self.start
        cdef const uint8_t* stop = self.data + self.end
        cdef const uint8_t* at = begin
        cdef const uint8_t* target
        cdef const uint8_t* question = NULL
        cdef const uint8_t* line
        cdef const char* version = PyBytes_AS_STRING(VERSION)
        cdef Py_ssize_t i
        cdef Py_ssize_t fields = 0
        cdef str method, path
        cdef dict environ
        cdef Progress progress

        while at < stop and 0x41 <= at[0] <= 0x5A:
            at += 1
        if at - begin > MOST_METHOD:
            return NOT_PLAIN
        if at == stop:
            return INCOMPLETE
        if at - begin < 3 or at[0] != 0x20:
            return NOT_PLAIN
        method = _ascii(begin, at)
        if method not in WITH_BODY and method not in WITHOUT_BODY:
            return NOT_PLAIN
        at += 1
        target = at
        if (at < stop and at[0] != 0x2F) or (stop - at > 1 and at[1] == 0x2F):
            return NOT_PLAIN
        while at < stop and 0x21 <= at[0] <= 0x7E:
            if at[0] == 0x23:
                return NOT_PLAIN
            if at[0] == 0x3F and question == NULL:
                question = at
            at += 1
        line = at
        for i in range(11):
            if at - begin > self.most_line:
                return NOT_PLAIN
            if at == stop:
                return INCOMPLETE
            if at[0] != <uint8_t>version[i]:
                return NOT_PLAIN
            at += 1
        if at - begin > self.most_line:
            return NOT_PLAIN
        if question == NULL:
            question = line

        environ = self.environ = self.base.copy()
        while True:
            if at == stop:
                return INCOMPLETE
            if at[0] == 0x0D:
                if stop - at < 2:
                    return INCOMPLETE
                if at[1] != 0x0A:
                    return NOT_PLAIN
                break
            fields += 1
            if fields > self.most_fields:
                return NOT_PLAIN
            progress = self._read_field(&at, stop)
            if progress != COMPLETE:
                return progress
        at += 2
        environ["REQUEST_METHOD"] = method
        environ["RAW_URI"] = _ascii(target, line)
        path = _ascii(target, question)
        if memchr(target, 0x25, question - target) != NULL:
            path = unquote_to_bytes(path).decode("latin-1")
        environ["PATH_INFO"] = path
        environ["QUERY_STRING"] = _ascii(question + 1, line) if question < line else ""
        self.stop = at - self.data
        return self._apply_rules(method)

    cdef Progress _read_field(self, const uint8_t** where, const uint8_t* stop) except *:
        """Reads one line of the head into `environ`, and moves on behind it."""
        cdef const uint8_t* begin = where[0]
        cdef const uint8_t* at = begin
        cdef const uint8_t* colon
        cdef const uint8_t* end
        cdef str key
        while at < stop and at[0] != 0x3A and at[0] != 0x0D and at[0] != 0x0A:
            at += 1
        if at - begin > MOST_NAME:
            return NOT_PLAIN
        if at == stop:
            return INCOMPLETE
        if at[0] != 0x3A:
            return NOT_PLAIN
        colon = at
        key = _key(begin, colon)
        if key is None or key in self.environ or key in NOT_OURS:
            return NOT_PLAIN
        at += 1
        while at < stop and (0x20 <= at[0] <= 0x7E or at[0] == 0x09):
            at += 1
        if at - begin > self.most_field - 2:
            return NOT_PLAIN
        if at == stop:
            return INCOMPLETE
        if at[0] != 0x0D:
            return NOT_PLAIN
        if at + 1 == stop:
            return INCOMPLETE
        if at[1] != 0x0A:
            return NOT_PLAIN
        end = at
        where[0] = at + 2
        at = colon + 1
        while at < end and (at[0] == 0x20 or at[0] == 0x09):
            at += 1
        while end > at and (end[-1] == 0x20 or end[-1] == 0x09):
            end -= 1
        self.environ[key] = _ascii(at, end)
        return COMPLETE

    cdef Progress _apply_rules(self, str method) except *:
        """What depends on several fields: the body's end, the scheme, the connection's."""
        cdef dict environ = self.environ
        cdef str value = environ.get("CONTENT_LENGTH")
        cdef str connection = environ.get("HTTP_CONNECTION")
        cdef str scheme = None
        if not environ.get("HTTP_HOST"):
            return NOT_PLAIN
        if value is None:
            # gunicorn would read such a body to the end of the connection.
            if method not in WITHOUT_BODY:
                return NOT_PLAIN
            self.body_size = 0
        else:
            self.body_size = _length(value)
            if not 0 <= self.body_size <= self.most_body:
                return NOT_PLAIN
            if self.body_size and method not in WITH_BODY:
                return NOT_PLAIN
        self.closes = False
        if connection is not None:
            connection = connection.lower()
            self.closes = connection == "close"
            if not self.closes and connection != "keep-alive":
                return NOT_PLAIN
        for key, secure in self.https.items():
            if key in environ:
                value = HTTPS if environ[key] == secure else HTTP
                if scheme is not None and scheme != value:
                    return NOT_PLAIN
                scheme = value
        if scheme is not None:
            environ["wsgi.url_scheme"] = scheme
        self.stop += self.body_size
        return COMPLETE

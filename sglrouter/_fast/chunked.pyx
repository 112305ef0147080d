# cython: boundscheck=False, wraparound=False, cdivision=True
"""Writes a piece of an HTTP/1.1 body to a non-blocking socket, framed, in one call."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdio cimport snprintf

cdef extern from "sys/types.h":
    ctypedef long ssize_t

cdef extern from "sys/uio.h" nogil:
    struct iovec:
        void* iov_base
        size_t iov_len

cdef extern from "sys/socket.h" nogil:
    struct msghdr:
        void* msg_name
        unsigned int msg_namelen
        iovec* msg_iov
        size_t msg_iovlen
        void* msg_control
        size_t msg_controllen
        int msg_flags
    ssize_t sendmsg(int, const msghdr*, int)
    enum:
        MSG_DONTWAIT
        MSG_NOSIGNAL

cdef extern from "string.h" nogil:
    char* strerror(int)

cdef bytes LINE_END = b"\r\n"
cdef bytes LAST_CHUNK = b"\r\n0\r\n\r\n"
cdef bytes EMPTY_END = b"0\r\n\r\n"


def write_body(int fd, bytes head not None, bytes body not None, bint chunked, bint last):
    """Sends head and body without waiting.

    Args:
        fd: The client's socket.
        head: What goes before the body, such as the response's headers; may be empty.
        body: The piece of the body; may be empty.
        chunked: Whether the body has chunked framing.
        last: Whether this piece ends the body.

    Returns:
        What the socket did not take, framed; usually nothing.

    Raises:
        OSError: The client is gone.
    """
    cdef char size[24]
    cdef iovec pieces[4]
    cdef msghdr message
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t total = 0
    cdef Py_ssize_t i
    cdef ssize_t sent
    cdef bytes end = b""
    cdef list rest
    if PyBytes_GET_SIZE(head):
        pieces[count].iov_base = PyBytes_AS_STRING(head)
        pieces[count].iov_len = PyBytes_GET_SIZE(head)
        count += 1
    if chunked and PyBytes_GET_SIZE(body):
        pieces[count].iov_base = size
        pieces[count].iov_len = snprintf(size, sizeof(size), "%zx\r\n", PyBytes_GET_SIZE(body))
        count += 1
        end = LAST_CHUNK if last else LINE_END
    elif chunked and last:
        end = EMPTY_END
    if PyBytes_GET_SIZE(body):
        pieces[count].iov_base = PyBytes_AS_STRING(body)
        pieces[count].iov_len = PyBytes_GET_SIZE(body)
        count += 1
    if PyBytes_GET_SIZE(end):
        pieces[count].iov_base = PyBytes_AS_STRING(end)
        pieces[count].iov_len = PyBytes_GET_SIZE(end)
        count += 1
    for i in range(count):
        total += pieces[i].iov_len
    if total == 0:
        return b""
    message.msg_name = NULL
    message.msg_namelen = 0
    message.msg_iov = pieces
    message.msg_iovlen = count
    message.msg_control = NULL
    message.msg_controllen = 0
    message.msg_flags = 0
    while True:
        sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL)
        if sent == total:
            return b""
        if sent >= 0:
            break
        if errno == EAGAIN:
            sent = 0
            break
        if errno != EINTR:
            raise OSError(errno, strerror(errno).decode("utf-8", "replace"))
    rest = []
    for i in range(count):
        rest.append((<char*>pieces[i].iov_base)[: pieces[i].iov_len])
    return b"".join(rest)[sent:]

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MENU = {"soup": "Kürbis", "main": "Spätzle mit Käse", "drink": "Apfelsaft", "price": "12 €"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer("pong" if self.path == "/ping" else json.dumps(MENU, ensure_ascii=False))

    def answer(self, text):
        self.send_response(200)
        self.send_header("content-type", "application/json; charset=utf-8")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()

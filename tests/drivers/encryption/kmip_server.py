"""A KMIP server for the suite: kmip_server.py FOLDER PORT CERTIFICATE KEY AUTHORITY. Keeps its keys in FOLDER."""
import logging
import os
import sys

from kmip.services.server import KmipServer

folder, port, certificate, key, authority = sys.argv[1:]
os.makedirs(os.path.join(folder, "policies"), exist_ok=True)
with KmipServer(
    hostname="127.0.0.1",
    port=int(port),
    certificate_path=certificate,
    key_path=key,
    ca_path=authority,
    auth_suite="TLS1.2",
    config_path=None,
    log_path=os.path.join(folder, "kmip.log"),
    policy_path=os.path.join(folder, "policies"),
    enable_tls_client_auth=True,
    logging_level=logging.INFO,
    database_path=os.path.join(folder, "keys.db"),
) as server:
    server.serve()

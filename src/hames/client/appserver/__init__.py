"""The client of an app server. `AppServerClient` is the name that programs import."""

from hames.client.appserver.client import AppServerClient as AppServerClient

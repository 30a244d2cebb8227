"""HTTP endpoints: the handler transform and the webhook sink."""

from streamling.builtins import Builtin

BUILTIN = Builtin(
    __name__,
    transforms={"handler": "handler:HandlerTransform"},
    sinks={"webhook": "webhook:WebhookSink"},
    config="config:HttpConfig",
    metrics="metrics:METRICS",
)

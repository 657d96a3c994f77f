"""The shapes of requests and answers, with an example each: what the OpenAPI document shows. A file for each noun."""

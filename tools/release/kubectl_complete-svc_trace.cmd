@"%~dp0kubectl-svc_trace.exe" __complete %*

import type {ResourceRequest} from './resources.ts';

/** An answer with a body of JSON. */
export interface Answer {
  readonly status: number;
  readonly body: object;
  readonly headers?: Readonly<Record<string, string>>;
}

const reasons: Readonly<Record<number, string>> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  405: 'MethodNotAllowed',
  409: 'AlreadyExists',
  410: 'Expired',
  429: 'TooManyRequests',
  500: 'InternalError',
  503: 'ServiceUnavailable',
  504: 'Timeout',
};

export function failure(
  code: number,
  message: string,
  more: {readonly details?: object; readonly metadata?: object; readonly headers?: Record<string, string>} = {},
): Answer {
  const {details, metadata = {}, headers = {}} = more;
  const status = {
    kind: 'Status',
    apiVersion: 'v1',
    metadata,
    status: 'Failure',
    message,
    reason: reasons[code] ?? '',
    ...(details ? {details} : {}),
    code,
  };
  return {status: code, body: status, headers};
}

export function notFound({resource, name, group}: ResourceRequest): Answer {
  const full = group === '' ? resource : `${resource}.${group}`;
  return failure(404, `${full} "${name}" not found`, {details: {name, ...(group === '' ? {} : {group}), kind: resource}});
}

export function forbidden(request: ResourceRequest, user: string): Answer {
  const {verb, group, resource, subresource, namespace, name} = request;
  const what = `${resource}${group === '' ? '' : `.${group}`}${name === '' ? '' : ` "${name}"`}`;
  const full = subresource === '' ? resource : `${resource}/${subresource}`;
  const where = namespace === '' ? 'at the cluster scope' : `in the namespace "${namespace}"`;
  return failure(403, `${what} is forbidden: User "${user}" cannot ${verb} resource "${full}" in API group "${group}" ${where}`, {
    details: {...(name === '' ? {} : {name}), ...(group === '' ? {} : {group}), kind: resource},
    headers: {'x-content-type-options': 'nosniff'},
  });
}

import {readFileSync} from 'node:fs';
import {bearer, type ClientCertificate, type Credential, type Credentials} from './credentials.ts';
import {ApiError} from '../kube-api.ts';
import {errorText} from '../../../model/text/error-text.ts';

interface TokenFileOptions {
  /** The token until the file can be read. */
  readonly fallback: string | null;
  readonly certificate: ClientCertificate | null;
}

/** A token that another program renews in a file, such as a service account's: read again whenever it is needed. */
export function tokenFileCredentials(file: string, {fallback, certificate}: TokenFileOptions): Credentials {
  let last = fallback;
  const current = async (): Promise<Credential> => {
    last = tokenOf(file, last);
    return {authorization: bearer(last), certificate};
  };
  return {
    description: `the token in ${file}`,
    fixed: null,
    current,
    renew: async refused => (await current()).authorization !== refused.authorization,
  };
}

function tokenOf(file: string, last: string | null): string {
  try {
    const token = readFileSync(file, 'utf8').trim();
    if (token !== '') return token;
    if (last !== null) return last;
  } catch (error) {
    if (last !== null) return last;
    throw new ApiError(`cannot read the token file ${file}: ${errorText(error)}`, {
      status: null,
      cause: error,
    });
  }
  throw new ApiError(`the token file ${file} is empty`, {status: null});
}
